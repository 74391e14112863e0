"""python -m phub.launch: phubrun where its script is not on the path."""
import sys

from phub.launch import main

sys.exit(main())
