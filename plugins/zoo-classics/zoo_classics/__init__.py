"""CIFAR-10, MNIST and Fashion-MNIST: where each comes from, and every form of its files."""
