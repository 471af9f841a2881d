package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"rutter/cmd/internal/practice"
)

type practiceOptions struct {
	env      *Env
	dir      string
	clusters []string
	audit    bool
}

// newPracticeCmd returns 'rutter practice' with its subcommands.
func newPracticeCmd(env *Env) *cobra.Command {
	opts := &practiceOptions{env: env}
	cmd := &cobra.Command{
		Use:   "practice",
		Short: "Start and stop real control planes on this machine, to practise and test on",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&opts.dir, "data", "", "where the clusters' data is kept while they run (default: the user's state directory)")
	cmd.AddCommand(newPracticeStartCmd(opts, practiceStart), newPracticeStopCmd(opts, practiceStop), newPracticeStatusCmd(opts, practiceStatus), newPracticeExecCmd(opts, practiceExec))
	return cmd
}

func newPracticeStartCmd(opts *practiceOptions, run func(context.Context, *practiceOptions) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Start practice clusters and write their kubeconfig",
		Long: `Start brings up real control planes: etcd, kube-apiserver, the controllers and
the scheduler. They have no nodes, so pods stay Pending. What they are made of is
built once, which takes about ten minutes on two cores; ready programs in the
folder that KUBEBUILDER_ASSETS names are used instead.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), opts) },
	}
	cmd.Flags().StringSliceVar(&opts.clusters, "clusters", []string{"a"}, "names of the clusters, separated by commas")
	cmd.Flags().BoolVar(&opts.audit, "audit", false, "keep an audit log of every request")
	return cmd
}

func practiceStart(ctx context.Context, opts *practiceOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer opts.env.Interrupts(cancel)()
	state, err := practice.Start(ctx, practice.Options{
		Clusters: opts.clusters, Dir: opts.dir, AuditLog: opts.audit, Progress: opts.env.Stderr, Getenv: opts.env.Getenv,
	})
	if errors.Is(err, practice.ErrRunning) {
		return fmt.Errorf("%w\n\thint: rutter practice status shows them, rutter practice stop ends them", err)
	}
	if err != nil {
		return err
	}
	for _, c := range state.Clusters {
		opts.env.linef("%s  %s  Kubernetes %s", c.Context, c.Server, strings.TrimPrefix(c.Version, "v"))
	}
	opts.env.linef("kubectl     %s", state.Kubectl)
	opts.env.linef("kubeconfig  %s", state.Kubeconfig)
	opts.env.linef("use it:     export KUBECONFIG=%s", state.Kubeconfig)
	return nil
}

// newPracticeExecCmd returns 'rutter practice exec'.
func newPracticeExecCmd(opts *practiceOptions, run func(context.Context, *practiceOptions, []string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exec -- COMMAND [ARG...]",
		Short: "Run a command with practice clusters that live as long as it does",
		Long: `Exec starts practice clusters of its own, runs the command with KUBECONFIG naming
them and their kubectl first in PATH, and stops them when it ends.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), opts, args) },
	}
	cmd.Flags().StringSliceVar(&opts.clusters, "clusters", []string{"a"}, "names of the clusters, separated by commas")
	return cmd
}

func practiceExec(ctx context.Context, opts *practiceOptions, args []string) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer opts.env.Interrupts(cancel)()
	own, err := startOwned(ctx, opts.env, opts.clusters)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.stop()) }()
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Stdin, c.Stdout, c.Stderr, c.Dir = opts.env.Stdin, opts.env.Stdout, opts.env.Stderr, opts.env.Dir
	c.Env = append(os.Environ(), "KUBECONFIG="+own.state.Kubeconfig, "PATH="+filepath.Dir(own.state.Kubectl)+string(os.PathListSeparator)+opts.env.Getenv("PATH"))
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = time.Minute
	var exit *exec.ExitError
	if err := c.Run(); errors.As(err, &exit) {
		return &codedError{max(exit.ExitCode(), 1), nil}
	} else if err != nil {
		return usage(err)
	}
	return nil
}

// owned are practice clusters that end with this process.
type owned struct {
	state *practice.State
	dir   string
	env   *Env
}

// startOwned starts practice clusters in a directory of their own.
func startOwned(ctx context.Context, env *Env, clusters []string) (*owned, error) {
	dir, err := os.MkdirTemp("", "rutter-practice-")
	if err != nil {
		return nil, fmt.Errorf("make a place for practice clusters: %w", err)
	}
	state, err := practice.Start(ctx, practice.Options{Clusters: clusters, Dir: filepath.Join(dir, "run"), Owned: true, Progress: env.Stderr, Getenv: env.Getenv})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &owned{state, dir, env}, nil
}

// stop ends the clusters, however the work ended.
func (o *owned) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return errors.Join(practice.Stop(ctx, filepath.Join(o.dir, "run"), io.Discard), os.RemoveAll(o.dir))
}

func newPracticeStopCmd(opts *practiceOptions, run func(context.Context, *practiceOptions) error) *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "Stop the practice clusters and remove their data",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), opts) },
	}
}

func practiceStop(ctx context.Context, opts *practiceOptions) error {
	return practice.Stop(ctx, opts.dir, opts.env.Stderr)
}

func newPracticeStatusCmd(opts *practiceOptions, run func(context.Context, *practiceOptions) error) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the practice clusters",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), opts) },
	}
}

func practiceStatus(_ context.Context, opts *practiceOptions) error {
	clusters, err := practice.Status(opts.dir)
	if err != nil {
		return err
	}
	if len(clusters) == 0 {
		opts.env.linef("no practice clusters; rutter practice start makes some")
		return nil
	}
	w := tabwriter.NewWriter(opts.env.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CLUSTER\tSTATE\tSERVER\tVERSION\tUP\tCONTEXT")
	for _, c := range clusters {
		state := "stopped"
		if c.Running {
			state = "running"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", c.Name, state, c.Server, c.Version, c.Uptime.Round(time.Second), c.Context)
	}
	return w.Flush()
}
