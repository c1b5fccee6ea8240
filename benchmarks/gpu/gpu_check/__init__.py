"""The acceptance run on a machine with GPUs: ``scripts/gpu_check.sh`` (docs/gpu.md)."""
