"""The ground floor: errors, files, digests, safetensors, JSON, the network, the console."""
