package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Owner is the process that has, or had last, a run open.
type Owner struct {
	PID  int    `json:"pid"`
	Host string `json:"host,omitempty"`
	// Since is when it opened the run.
	Since time.Time `json:"since"`
}

// String returns the owner as "process 4711 on box, since 2026-12-01 14:30:15".
func (o Owner) String() string {
	if o.PID == 0 {
		return "an unknown process"
	}
	s := fmt.Sprintf("process %d", o.PID)
	if o.Host != "" {
		s += " on " + o.Host
	}
	return s + ", since " + o.Since.Local().Format(time.DateTime)
}

// own takes the lock of a run and writes down who has it. The lock is only
// good while its file is open; what is written there outlives it.
func own(dir string, now time.Time) (*os.File, error) {
	f, err := takeLock(filepath.Join(dir, lockFile))
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // "" tells less, and nothing depends on it
	text, err := json.Marshal(Owner{PID: os.Getpid(), Host: host, Since: now.UTC()})
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(append(text, '\n'), 0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// owner reads who has, or had, the lock. What cannot be read is nobody.
func owner(dir string) (o Owner) {
	data, err := os.ReadFile(filepath.Join(dir, lockFile))
	if err != nil || json.Unmarshal(data, &o) != nil {
		return Owner{}
	}
	return o
}
