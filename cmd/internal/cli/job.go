package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rutter/executor"
	"rutter/executor/kube"
	"rutter/runbooks/diag"
	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
)

// jobFlags bind a runbook to inputs and clusters; plan, run and drill share
// them.
type jobFlags struct {
	env        *Env
	base       *baseFlags
	runbook    string
	inputs     []string
	clusters   []string
	kubeconfig string
}

func (f *jobFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&f.inputs, "input", "i", nil, "an input, NAME=VALUE (may be repeated)")
	cmd.Flags().StringArrayVar(&f.clusters, "cluster", nil, "the context of a role, ROLE=CONTEXT (may be repeated)")
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file (default: $KUBECONFIG, else ~/.kube/config)")
}

// job finds the runbook and binds it. Every problem is a usage error.
func (f *jobFlags) job() (*executor.Job, error) {
	b, err := f.base.open()
	if err != nil {
		return nil, err
	}
	rb, err := f.env.find(b, f.runbook)
	if err != nil {
		return nil, err
	}
	given, err := pairs("-i", f.inputs)
	if err != nil {
		return nil, usage(err)
	}
	inputs, err := rb.Resolve(given)
	if err != nil {
		return nil, usage(err)
	}
	job := &executor.Job{Runbook: rb, Inputs: inputs, Contexts: map[string]string{}, Clusters: map[string]executor.Cluster{}}
	return job, f.bind(job)
}

// pairs reads NAME=VALUE arguments.
func pairs(flag string, args []string) (map[string]string, error) {
	out := map[string]string{}
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%s %s: want NAME=VALUE", flag, arg)
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("%s %s: %s is given twice", flag, arg, name)
		}
		out[name] = value
	}
	return out, nil
}

// bind opens the clusters of the roles.
func (f *jobFlags) bind(job *executor.Job) error {
	contexts, err := pairs("--cluster", f.clusters)
	if err != nil {
		return usage(err)
	}
	var roles []string
	for _, c := range job.Runbook.Clusters {
		roles = append(roles, c.Role)
	}
	for role := range contexts {
		if !slices.Contains(roles, role) {
			return usage(fmt.Errorf("%s has no role %q\n\thint: %s", job.Runbook.Name, role, diag.DidYouMean(role, roles)))
		}
	}
	cfg := f.kubeconfigs()
	var missing []string
	for _, c := range job.Runbook.Clusters {
		name, ok := contexts[c.Role]
		if !ok {
			if !c.Optional {
				missing = append(missing, c.Role)
			}
			continue
		}
		cfg.Context = name
		cluster, err := kube.New(cfg)
		if err != nil {
			return usage(fmt.Errorf("role %s: %w", c.Role, err))
		}
		job.Contexts[c.Role], job.Clusters[c.Role] = name, cluster
	}
	if len(missing) > 0 {
		return usage(unbound(job.Runbook, missing, cfg))
	}
	return nil
}

// unbound says which contexts there are to bind the missing roles to.
func unbound(rb *runbook.Runbook, missing []string, cfg kube.Config) error {
	hint := "add"
	for _, role := range missing {
		hint += " --cluster " + role + "=CONTEXT"
	}
	if names, _, err := kube.Contexts(cfg); err == nil && len(names) > 0 {
		hint += "; the contexts are " + strings.Join(names, ", ")
	}
	return fmt.Errorf("%s works on %s, and no context is bound to it\n\thint: %s", rb.Name, strings.Join(missing, " and "), hint)
}

// kubeconfigs says which files name the contexts: the one of --kubeconfig, else
// those that kubectl reads.
func (f *jobFlags) kubeconfigs() kube.Config {
	cfg := kube.Config{Version: Version, Stderr: f.env.Stderr, Interactive: f.env.Terminal}
	if f.kubeconfig != "" {
		cfg.Kubeconfig = f.env.abs(f.kubeconfig)
	} else {
		cfg.Paths = kube.DefaultPaths(f.env.Getenv, f.env.Getenv("HOME"))
	}
	return cfg
}

// grant is the ClusterRole that would give what is missing.
func grant(rb *runbook.Runbook, missing []executor.MissingPermission) string {
	perms := make([]step.Permission, len(missing))
	for i, m := range missing {
		perms[i] = m.Permission
	}
	return runbook.ClusterRole("rutter-"+rb.Name, perms)
}

// preflight asks the clusters, prints who they are, and refuses to go on where
// something is missing.
func preflight(ctx context.Context, env *Env, job *executor.Job, quiet bool) (*executor.Check, error) {
	check, err := executor.Preflight(ctx, job)
	if err != nil {
		return nil, &codedError{exitRefused, fmt.Errorf("%w\n\thint: nothing was changed; see that the context is the right one and its server is up", err)}
	}
	out := style{env.Stdout, env.Color}
	if !quiet {
		out.identities(job.Runbook, check.Identities)
		for _, note := range check.Notes {
			out.linef("note: %s", printable(note))
		}
	}
	if check.OK() {
		return check, nil
	}
	errs := style{env.Stderr, false}
	for _, p := range check.Problems {
		errs.linef("rutter: %s", printable(p))
	}
	if len(check.Missing) > 0 {
		errs.linef("rutter: %s may not do all that %s needs; nothing was changed. Missing:", who(job, check), job.Runbook.Name)
		for _, m := range check.Missing {
			errs.linef("    %s: %s   (%s)", m.Role, printable(m.Permission.String()), strings.Join(m.Steps, ", "))
		}
		errs.linef("\thint: an administrator can grant them with this ClusterRole:")
		errs.block("    ", "", grant(job.Runbook, check.Missing))
	}
	return check, &codedError{exitRefused, nil}
}

// who names the user that lacks something.
func who(job *executor.Job, check *executor.Check) string {
	for _, m := range check.Missing {
		id := check.Identities[m.Role]
		if id.User != "" {
			return fmt.Sprintf("%s in context %q", printable(id.User), printable(job.Contexts[m.Role]))
		}
	}
	return "you"
}
