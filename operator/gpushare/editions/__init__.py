"""What each edition of GPU sharing is: its modes, labels, plugins, and changes between modes."""
