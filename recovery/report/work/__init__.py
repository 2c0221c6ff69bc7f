"""What does a report say of a server that was put to work? Of figures, axes and cells, whatever they are."""
