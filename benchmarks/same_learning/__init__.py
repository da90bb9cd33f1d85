"""Does every fast path of the reference trainer learn what plain PyTorch in fp32 does?"""
