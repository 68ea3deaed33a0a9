#!/usr/bin/env python
"""Memory Hub's command line in a checkout."""

from memoryhub.__main__ import main

if __name__ == "__main__":
    main()
