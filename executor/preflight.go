package executor

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"

	"golang.org/x/sync/errgroup"

	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
)

// Check is the result of a preflight: who the clusters are, and what stands in
// the way. Problems is empty if the job may run.
type Check struct {
	// Identities are by role, of the bound roles.
	Identities map[string]step.Identity
	// Missing are the permissions that the clusters refuse.
	Missing []MissingPermission
	// Problems are the other obstacles, each one line with what to do.
	Problems []string
	// Notes are optional things that are not there.
	Notes []string
}

// MissingPermission is a permission that a run needs and does not have.
type MissingPermission struct {
	Role       string
	Permission step.Permission
	Steps      []string // that need it
}

// OK reports whether nothing stands in the way.
func (c *Check) OK() bool { return len(c.Missing) == 0 && len(c.Problems) == 0 }

// Preflight asks every cluster who it is and whether it allows what the steps
// need, rescue and finally included, and changes nothing. Where only the run
// will tell in which namespace a step works, the permission is asked for in
// all of them. The error is not nil only if a question could not be asked.
func Preflight(ctx context.Context, job *Job) (*Check, error) {
	c := &Check{Identities: map[string]step.Identity{}}
	if err := c.identify(ctx, job); err != nil {
		return nil, err
	}
	c.distinct(job.Runbook)
	if len(c.Problems) > 0 {
		return c, nil
	}
	c.requirements(ctx, job)
	needs, err := job.needs(ctx)
	if err != nil {
		return nil, err
	}
	for _, role := range sortedRoles(job) {
		missing, err := job.Clusters[role].Access(ctx, needs.of(role))
		if err != nil {
			return nil, fmt.Errorf("ask %s (%s) for permissions: %w", role, job.Contexts[role], err)
		}
		for _, p := range missing {
			c.Missing = append(c.Missing, MissingPermission{role, p, needs.steps(role, p)})
		}
	}
	return c, nil
}

func sortedRoles(job *Job) []string {
	var roles []string
	for _, cl := range job.Runbook.Clusters {
		if _, ok := job.Clusters[cl.Role]; ok {
			roles = append(roles, cl.Role)
		}
	}
	return roles
}

// identify asks all clusters at once, so that one which does not answer costs
// its time only once.
func (c *Check) identify(ctx context.Context, job *Job) error {
	roles := sortedRoles(job)
	ids := make([]step.Identity, len(roles))
	errs := make([]error, len(roles))
	var g errgroup.Group
	for i, role := range roles {
		g.Go(func() error {
			ids[i], errs[i] = job.Clusters[role].Identity(ctx)
			return nil
		})
	}
	_ = g.Wait() // each role's error is kept beside it
	var all []error
	for i, role := range roles {
		if errs[i] != nil {
			all = append(all, fmt.Errorf("%s (context %q): %w", role, job.Contexts[role], errs[i]))
			continue
		}
		c.Identities[role] = ids[i]
	}
	return errors.Join(all...)
}

// distinct refuses roles that must differ and are one cluster, which is told
// by the UID and not by the context's name.
func (c *Check) distinct(rb *runbook.Runbook) {
	for _, cl := range rb.Clusters {
		mine, bound := c.Identities[cl.Role]
		switch other, ok := c.Identities[cl.DistinctFrom]; {
		case !bound && !cl.Optional:
			c.Problems = append(c.Problems, fmt.Sprintf("no context is bound to the role %s (%s): add --cluster %s=CONTEXT", cl.Role, cl.Title, cl.Role))
		case bound && ok && mine.UID == other.UID:
			c.Problems = append(c.Problems, fmt.Sprintf("%s (context %q) and %s (context %q) are the same cluster, %s: bind one of them to another context",
				cl.Role, mine.Context, cl.DistinctFrom, other.Context, mine.UID))
		}
	}
}

func (c *Check) requirements(ctx context.Context, job *Job) {
	for _, r := range job.Runbook.Requires {
		var problem string
		if r.Tool != "" {
			if _, err := exec.LookPath(r.Tool); err != nil {
				problem = fmt.Sprintf("the program %s is not installed here", r.Tool)
			}
		} else if cluster, ok := job.Clusters[r.Cluster]; ok {
			if _, err := cluster.Resolve(ctx, r.Resource); err != nil {
				problem = fmt.Sprintf("%s (context %q): %s", r.Cluster, job.Contexts[r.Cluster], err)
			}
		}
		switch {
		case problem == "":
		case r.Optional:
			c.Notes = append(c.Notes, problem)
		default:
			c.Problems = append(c.Problems, problem)
		}
	}
}

// need is a permission and a step that asks for it.
type need struct {
	role, step string
	permission step.Permission
}

type needs []need

// of returns the permissions that a role needs, each once.
func (n needs) of(role string) []step.Permission {
	var out []step.Permission
	for _, x := range n {
		if x.role == role && !slices.Contains(out, x.permission) {
			out = append(out, x.permission)
		}
	}
	slices.SortFunc(out, runbook.ComparePermissions)
	return slices.Compact(out)
}

func (n needs) steps(role string, p step.Permission) []string {
	var out []string
	for _, x := range n {
		if x.role == role && x.permission == p && !slices.Contains(out, x.step) {
			out = append(out, x.step)
		}
	}
	return out
}

// needs returns the permissions of every step. What the arguments of a step
// are is known as far as the plan's reads can tell; the plan never writes.
func (j *Job) needs(ctx context.Context) (needs, error) {
	var all needs
	p := &planner{job: j, ctx: ctx, quiet: true}
	p.onAction = func(s *runbook.Step, action step.Action) {
		if s.Role == "" || j.Clusters[s.Role] == nil {
			return
		}
		for _, perm := range action.Permissions() {
			all = append(all, need{s.Role, s.ID, known(perm)})
		}
	}
	vars := j.vars()
	p.steps(j.Runbook.Steps, vars, 0)
	p.steps(j.Runbook.Finally, vars, 0)
	return all, ctx.Err()
}

// known widens a permission whose namespace or name only the run will tell.
func known(p step.Permission) step.Permission {
	if step.HasMark(p.Namespace) {
		p.Namespace, p.Name = "", ""
	}
	if step.HasMark(p.Name) {
		p.Name = ""
	}
	return p
}
