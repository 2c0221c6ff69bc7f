"""Contains what measures on many hosts, by Ansible, and compares their sessions."""
