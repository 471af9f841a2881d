package practice

import (
	"errors"
	"os"
	"os/exec"
)

var errWindows = errors.New("practice clusters do not run on Windows: use Linux, or WSL 2")

func identify(int) (Process, error)  { return Process{}, errWindows }
func separate(*exec.Cmd, bool)       {}
func terminate(Process) error        { return errWindows }
func kill(Process) error             { return errWindows }
func tryLock(*os.File) (bool, error) { return false, errWindows }
