"""The ImageNet weights of EfficientNet-Lite0: efficientnet_lite0.safetensors, and no code."""
