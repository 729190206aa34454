"""The editions of GPU sharing: their modes, labels, plugins, and changes between modes."""
