package practice

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Names within the directory of a set of clusters.
const (
	stateName      = "state.json"
	kubeconfigName = "kubeconfig"
	clustersName   = "clusters"
	lockName       = "lock"
	tempPrefix     = ".tmp-"
)

// stateFormat is the version of the state file; another one is refused.
const stateFormat = 1

// State is a set of clusters that [Start] brought up.
//
// It is also the state file. Its methods may be called from several
// goroutines; its fields are not changed after Start, except by Restart.
type State struct {
	Dir        string    // holds all the clusters' files
	Kubeconfig string    // one context per cluster, mode 0600
	Kubectl    string    // a kubectl of the clusters' version
	Clusters   []Cluster // in the order of Options.Clusters

	// supervisor is the process without which the clusters end; nil once
	// they run by themselves.
	supervisor *Process

	opts     Options
	programs Binaries
	mu       sync.Mutex
	running  map[string]*cluster
}

// Cluster is one control plane.
type Cluster struct {
	Name      string    `json:"name"`
	Context   string    `json:"context"` // in the kubeconfig
	Server    string    `json:"server"`  // URL of the API server
	Version   string    `json:"version,omitempty"`
	Dir       string    `json:"dir"` // its data, certificates and logs
	Started   time.Time `json:"started"`
	Processes []Process `json:"processes"`
}

// Process names a process so that it cannot be mistaken for a later one with
// the same number.
type Process struct {
	Name  string `json:"name"`
	PID   int    `json:"pid"`
	Start string `json:"start"` // when it started, in a form only good for comparing
}

// Log returns the file with the control plane's output.
func (c Cluster) Log() string { return filepath.Join(c.Dir, "control-plane.log") }

// AuditLog returns the file with the API server's audit events, one JSON value
// a line, each written before its request is answered. It exists if
// Options.AuditLog was set. The control plane's own requests come from the user
// "system:practice-control-plane"; the kubeconfig's user is "practice-admin".
func (c Cluster) AuditLog() string { return filepath.Join(c.Dir, "audit.log") }

// Alive reports whether every process of the cluster still runs.
func (c Cluster) Alive() bool {
	for _, p := range c.Processes {
		if !p.Alive() {
			return false
		}
	}
	return len(c.Processes) > 0
}

// Alive reports whether this very process still runs.
func (p Process) Alive() bool {
	now, err := identify(p.PID)
	return err == nil && now.Start == p.Start
}

// Cluster returns the cluster of that name.
func (s *State) Cluster(name string) (Cluster, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.Clusters {
		if c.Name == name {
			return c, true
		}
	}
	return Cluster{}, false
}

// stateFile is the form of State on disk.
type stateFile struct {
	Format     int       `json:"format"`
	Kubectl    string    `json:"kubectl"`
	Supervisor *Process  `json:"supervisor,omitempty"`
	Clusters   []Cluster `json:"clusters"`
}

// save replaces the state file at once, so that a reader never sees half of it.
func (s *State) save() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, err := json.MarshalIndent(stateFile{
		Format: stateFormat, Kubectl: s.Kubectl, Supervisor: s.supervisor, Clusters: s.Clusters,
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("save the state of the practice clusters: %w", err)
	}
	return writeFile(filepath.Join(s.Dir, stateName), append(data, '\n'))
}

// writeFile replaces a file that only the user may read.
func writeFile(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), tempPrefix+"*") // mode 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}

// load reads the state of the clusters in dir. It returns an error that
// matches [os.ErrNotExist] if there is none.
func load(dir string) (*State, error) {
	path := filepath.Join(dir, stateName)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var f stateFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if f.Format != stateFormat {
		return nil, fmt.Errorf("read %s: written by another version of rutter (format %d, not %d)", path, f.Format, stateFormat)
	}
	return &State{
		Dir:        dir,
		Kubeconfig: filepath.Join(dir, kubeconfigName),
		Kubectl:    f.Kubectl,
		Clusters:   f.Clusters,
		supervisor: f.Supervisor,
	}, nil
}

// abandoned reports whether the clusters' supervisor is gone although they
// need it: what still runs of them is about to end.
func (s *State) abandoned() bool { return s.supervisor != nil && !s.supervisor.Alive() }

// ClusterStatus is what [Status] knows of one cluster.
type ClusterStatus struct {
	Cluster
	Running bool
	Uptime  time.Duration // 0 unless it runs
}

// Status reports on the clusters in dir, which may be empty for [DefaultDir].
// It returns an empty list if none were started there, and lists what died, or
// was left by a supervisor that died, as not running.
func Status(dir string) ([]ClusterStatus, error) {
	s, err := Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	statuses := make([]ClusterStatus, len(s.Clusters))
	for i, c := range s.Clusters {
		statuses[i] = ClusterStatus{Cluster: c, Running: c.Alive() && !s.abandoned()}
		if statuses[i].Running {
			statuses[i].Uptime = time.Since(c.Started).Round(time.Second)
		}
	}
	return statuses, nil
}

// Open returns the clusters that were started in dir by another process, or an
// error that matches [os.ErrNotExist] if there are none. They may have died
// since; ask [Cluster.Alive].
func Open(dir string) (*State, error) {
	dir, err := absDir(dir)
	if err != nil {
		return nil, err
	}
	return load(dir)
}

func absDir(dir string) (string, error) {
	if dir == "" {
		return DefaultDir()
	}
	return filepath.Abs(dir)
}
