//go:build !unix

package journal

import "os"

// takeLock only makes the file: whether a process is alive is not told here.
func takeLock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}

// held cannot tell, so no run counts as alive.
func held(string) bool { return false }

// syncDir does nothing: the system has no such thing.
func syncDir(string) error { return nil }
