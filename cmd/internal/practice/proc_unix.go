//go:build unix

package practice

import (
	"errors"
	"os"
	"syscall"
)

// terminate asks, and kill makes, the process and its group to end. Only a
// process that was just identified may be passed.
func terminate(p Process) error { return signalGroup(p.PID, syscall.SIGTERM) }
func kill(p Process) error      { return signalGroup(p.PID, syscall.SIGKILL) }

func signalGroup(pid int, sig syscall.Signal) error {
	err := syscall.Kill(-pid, sig)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// tryLock takes the lock on an open file and reports whether it could. The lock
// goes with the file, also when its process is killed.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
