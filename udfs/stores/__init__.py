"""Where bytes lie: addresses, clients and credentials of file systems and object stores."""
