package practice

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// identify returns the process that has this number now, or an error that
// matches [os.ErrNotExist] if none has. A zombie counts as gone: it does
// nothing any more, and its parent may be a test that never asks.
func identify(pid int) (Process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Process{}, err
	}
	// The second field is the program's name, which may hold spaces and
	// parentheses; everything after its last parenthesis is well-behaved.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const state, startTime = 0, 19 // fields 3 and 22 of proc_pid_stat(5)
	if len(fields) <= startTime {
		return Process{}, fmt.Errorf("process %d: unexpected form of its stat file", pid)
	}
	if s := fields[state][0]; s == 'Z' || s == 'X' {
		return Process{}, fmt.Errorf("process %d: %w", pid, os.ErrNotExist)
	}
	ticks, err := strconv.ParseUint(string(fields[startTime]), 10, 64)
	if err != nil {
		return Process{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return Process{PID: pid, Start: fmt.Sprintf("%d@%s", ticks, bytes.TrimSpace(boot))}, nil
}

// separate gives a command its own session, out of reach of the terminal's
// signals. If dieWithParent, the kernel kills it when the thread that started
// it ends.
func separate(cmd *exec.Cmd, dieWithParent bool) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if dieWithParent {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
}
