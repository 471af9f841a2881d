package practice

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"
)

// Addresses inside the clusters. They are the same in each, as in real life.
const (
	serviceRange = "10.96.0.0/16"
	serviceIP    = "10.96.0.1"
)

// cluster is a control plane that this process started.
type cluster struct {
	creds    credentials
	programs []*program
	later    []command     // to start when the API server answers
	exited   chan *program // gets each program when it ends; never blocks
}

// program is one running child process.
type program struct {
	name     string
	cmd      *exec.Cmd
	lifeline *os.File // the child ends when this closes; nil if it holds none
	done     chan struct{}
	err      error // valid once done is closed
}

// launch makes the directory of a cluster, starts its programs and records
// them. It does not wait for them to be of use.
func (s *State) launch(ctx context.Context, name string) error {
	dir := filepath.Join(s.Dir, clustersName, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	listener, err := listen(ctx, "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	defer listener.Close()
	c := Cluster{
		Name: name, Context: name, Dir: dir,
		Server: "https://" + listener.Addr().String(), Started: time.Now(),
	}
	creds, err := writeCerts(dir, name, c.Server, c.Started)
	if err != nil {
		return err
	}
	if s.opts.AuditLog {
		if err := os.WriteFile(filepath.Join(dir, auditPolicyName), []byte(auditPolicy), 0o600); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.Clusters = append(s.Clusters, c)
	s.mu.Unlock()
	return s.run(len(s.Clusters)-1, creds, listener)
}

// run starts the programs of the i-th cluster that do not need its API server,
// and records their processes.
func (s *State) run(i int, creds credentials, listener *net.TCPListener) error {
	commands := s.programs.commands(s.opts, listener.Addr().(*net.TCPAddr).Port)
	c := &cluster{creds: creds, exited: make(chan *program, len(commands))}
	s.mu.Lock()
	if s.running == nil {
		s.running = map[string]*cluster{}
	}
	s.running[s.Clusters[i].Name] = c
	s.Clusters[i].Processes = nil
	s.mu.Unlock()
	for _, cmd := range commands {
		if cmd.needsAPI {
			c.later = append(c.later, cmd)
			continue
		}
		if cmd.inherit {
			cmd.listener = listener
		} else {
			listener.Close() // the program opens the port itself
		}
		if err := s.runOne(i, c, cmd); err != nil {
			return err
		}
	}
	return nil
}

// runRest starts the programs that need the API server of the i-th cluster.
func (s *State) runRest(i int) error {
	c := s.running[s.Clusters[i].Name]
	for _, cmd := range c.later {
		if err := s.runOne(i, c, cmd); err != nil {
			return err
		}
	}
	return nil
}

func (s *State) runOne(i int, c *cluster, cmd command) error {
	spec := s.Clusters[i]
	log, err := os.OpenFile(spec.Log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.dir, cmd.log = spec.Dir, log
	p, process, err := cmd.run(s.opts.Owned)
	if err != nil {
		return fmt.Errorf("start %s of %s: %w%s", cmd.name, spec.Name, err, tail(spec.Log()))
	}
	c.programs = append(c.programs, p)
	s.mu.Lock()
	s.Clusters[i].Processes = append(s.Clusters[i].Processes, process)
	s.mu.Unlock()
	go func() {
		<-p.done
		c.exited <- p
		s.endRest(i, c)
	}()
	return s.save()
}

// endRest ends the other programs of a cluster that has lost one, unless the
// cluster has been started anew since.
func (s *State) endRest(i int, c *cluster) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[s.Clusters[i].Name] == c {
		signalAll(s.Clusters[i].Processes, terminate)
	}
}

// command is a program to start for a cluster.
type command struct {
	name     string
	path     string
	args     []string
	inherit  bool // gets the listener and a lifeline
	needsAPI bool // ends by itself if the API server does not answer soon
	listener *net.TCPListener
	dir      string
	log      *os.File
}

// run starts the program. A program that takes no lifeline is killed by the
// kernel with an owner that dies, where the kernel can.
func (c command) run(owned bool) (*program, Process, error) {
	p := &program{name: c.name, done: make(chan struct{})}
	p.cmd = exec.Command(c.path, c.args...)
	p.cmd.Dir = c.dir
	p.cmd.Env = environment()
	p.cmd.Stdout, p.cmd.Stderr = c.log, c.log
	separate(p.cmd, owned && !c.inherit)
	if c.inherit {
		shared, err := c.listener.File()
		if err != nil {
			return nil, Process{}, err
		}
		defer shared.Close()
		theirs, ours, err := os.Pipe()
		if err != nil {
			return nil, Process{}, err
		}
		defer theirs.Close()
		p.cmd.Stdin, p.cmd.ExtraFiles, p.lifeline = theirs, []*os.File{shared}, ours
	}
	started := make(chan error, 1)
	go func() {
		// The kernel ties the child to this thread, so the thread stays
		// until the child is gone, and no other goroutine may use it up.
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
		if p.lifeline != nil {
			p.lifeline.Close()
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, Process{}, err
	}
	process, err := identify(p.cmd.Process.Pid)
	if errors.Is(err, os.ErrNotExist) {
		<-p.done
		return nil, Process{}, fmt.Errorf("ended at once: %v", p.err)
	}
	process.Name = c.name
	return p, process, err
}

// environment is all that a control plane needs of its surroundings. A proxy
// must not get its traffic, and etcd reads flags from the environment.
func environment() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "TZ"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// letGo cuts the clusters loose, so that they outlive this process.
func (s *State) letGo() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, c := range s.running {
		for _, p := range c.programs {
			if p.lifeline == nil {
				continue
			}
			if _, err := p.lifeline.Write([]byte{detach}); err != nil {
				return fmt.Errorf("let %s go: %w", name, err)
			}
		}
	}
	return nil
}

// detach is what the control plane reads from its lifeline as its permission
// to outlive the other end.
const detach = 'd'

// listen opens a TCP listener. The port is taken from here on until the
// cluster's own process has it.
func listen(ctx context.Context, address string) (*net.TCPListener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp4", address)
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil
}

// inheritedFD is the number of the first of exec.Cmd's extra files.
const inheritedFD = 3

// commands returns what makes up one cluster: the composed control plane, or
// the separate programs that stand in for it.
func (b Binaries) commands(opts Options, port int) []command {
	api := apiServerArgs(opts, port)
	if b.ControlPlane != "" {
		args := append([]string{"--listener-fd", strconv.Itoa(inheritedFD), "--"}, api...)
		return []command{{name: "controlplane", path: b.ControlPlane, args: args, inherit: true}}
	}
	cmds := []command{
		{name: "etcd", path: b.Etcd, args: etcdArgs()},
		{name: "kube-apiserver", path: b.APIServer, args: append(api, "--cert-dir=certs")},
		{name: "kube-controller-manager", path: b.ControllerManager, args: controllerArgs(), needsAPI: true},
	}
	if b.Scheduler != "" {
		cmds = append(cmds, command{name: "kube-scheduler", path: b.Scheduler, args: schedulerArgs(), needsAPI: true})
	}
	return cmds
}
