"""`readback demo`: a scripted agent's morning at an order desk, on real local systems, some of which lie."""
