"""Operations shared by both clients and the command line, one module each."""
