"""The same evaluation every night, compared with the nights before."""
