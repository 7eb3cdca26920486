"""The compiled part: ranked lists of many texts in, fused scores and ranks of relevant labels out."""
