"""Sign-in by a wallet that signs a message: Ethereum (EIP-4361) and Solana (Sign In With Solana)."""
