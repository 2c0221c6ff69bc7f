"""Checks what the tool's intervals say, against stored sessions and by simulation (`make intervals`)."""
