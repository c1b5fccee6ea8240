"""Makes the modules of this folder importable by the tests in its subfolders."""
