"""What was published, at which scale can it be repeated here, and does it show?"""
