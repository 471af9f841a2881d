package main

import (
	"bufio"
	"io"
)

// detach is the byte that cuts a cluster loose from its supervisor.
const detach = 'd'

// holdLifeline blocks until r ends, which it does when the supervisor that
// holds the other end is gone, even after kill -9. Once the supervisor has
// written the detach byte it blocks for ever: the cluster is on its own.
func holdLifeline(r io.Reader) {
	in := bufio.NewReader(r)
	for {
		b, err := in.ReadByte()
		if err != nil {
			return
		}
		if b == detach {
			select {}
		}
	}
}
