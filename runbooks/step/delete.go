package step

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Delete returns the verb that deletes objects and waits until they are gone.
func Delete() *Kind {
	return &Kind{
		Name: "delete",
		Doc: "Deletes what matches, and waits until it is really gone.\n\n" +
			"Each object is deleted by its UID, so one that was made anew in the meantime is left alone and reported. " +
			"What is being deleted already is only waited for. " +
			"If the step's time ends first it fails, and says which objects remain and which finalizers hold them.",
		Example: `- id: drop
  title: Delete the pods
  delete: {resource: pods, namespace: demo, selector: app=web}
  approve: Delete the pods of web?
  timeout: 1m
`,
		Result: "`deleted`, `already` (being deleted before) and `recreated`: lists of names",
		New:    func() Action { return new(deletion) },
	}
}

type deletion struct {
	Target
	Timeout
	All         bool   `yaml:"all" doc:"Delete all of them. Needed where neither name nor a selector narrows it down."`
	Wait        *bool  `yaml:"wait" doc:"Wait until they are gone (the default)."`
	Propagation string `yaml:"propagation" enum:"Background|Foreground|Orphan" doc:"What becomes of what they own."`
	GracePeriod *int64 `yaml:"gracePeriod" doc:"Seconds that pods get to end; 0 is at once."`
}

func (d *deletion) Effect() Effect { return Destroys }

func (d *deletion) Check() []Problem {
	ps := d.check()
	if !d.narrowed() && !d.All {
		ps = append(ps, Problem{"", "this would delete all of them", "add name, selector or fieldSelector, or say all: true"})
	}
	if d.narrowed() && d.All {
		ps = append(ps, Problem{"all", "all and a name or selector exclude each other", "drop one of them"})
	}
	if d.GracePeriod != nil && *d.GracePeriod < 0 {
		ps = append(ps, Problem{"gracePeriod", "a grace period is not negative", "use 0 to delete at once"})
	}
	return ps
}

func (d *deletion) waits() bool { return d.Wait == nil || *d.Wait }

func (d *deletion) Permissions() []Permission {
	verbs := []string{"get", "delete"}
	if d.Name == "" {
		verbs = append(verbs, "list")
	}
	ps := d.permissions(verbs...)
	if d.waits() {
		ps = append(ps, d.permissions("list", "watch")...)
	}
	return unique(ps)
}

func (d *deletion) Kubectl() []Line {
	flags := []string{"--ignore-not-found"}
	if d.All {
		flags = append(flags, "--all")
	}
	if d.Propagation != "" {
		flags = append(flags, "--cascade="+strings.ToLower(d.Propagation))
	}
	if d.GracePeriod != nil {
		flags = append(flags, "--grace-period="+strconv.FormatInt(*d.GracePeriod, 10))
		if *d.GracePeriod == 0 {
			flags = append(flags, "--force")
		}
	}
	if d.waits() {
		flags = append(flags, "--timeout="+shortDuration(d.limit))
	} else {
		flags = append(flags, "--wait=false")
	}
	return d.lines("delete", flags...)
}

// targets finds what to delete.
func (d *deletion) targets(ctx context.Context, r Reader) ([]Found, error) {
	if err := refuse(d); err != nil {
		return nil, fmt.Errorf("delete %s: %w", d.what(), err)
	}
	found, err := d.find(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("delete %s: %w", d.what(), err)
	}
	return found, nil
}

func (d *deletion) Preview(ctx context.Context, r Reader) (*Preview, error) {
	found, err := d.targets(ctx, r)
	if err != nil {
		return nil, err
	}
	p := &Preview{Said: "nothing to delete", Idle: len(found) == 0}
	for _, f := range found {
		if d.send(f) {
			p.Changes = append(p.Changes, Change{Op: OpDelete, Object: f.Ref, Before: f.Object, Note: deletionNote(f)})
		}
	}
	if len(found) > 0 {
		p.Said = fmt.Sprintf("would delete %d", len(p.Changes))
		if n := len(found) - len(p.Changes); n > 0 {
			p.Said += fmt.Sprintf(", and wait for %d being deleted already", n)
		}
	}
	return p, nil
}

func deletionNote(f Found) string {
	if fs := f.Object.GetFinalizers(); len(fs) > 0 {
		return "held by " + strings.Join(fs, ", ")
	}
	return ""
}

// send reports whether a DELETE is to be sent: not for what is being deleted
// already, unless it is to go sooner.
func (d *deletion) send(f Found) bool {
	if f.Object.GetDeletionTimestamp() == nil {
		return true
	}
	grace := f.Object.GetDeletionGracePeriodSeconds()
	return d.GracePeriod != nil && grace != nil && *d.GracePeriod < *grace
}

func (d *deletion) Run(ctx context.Context, c Cluster, h Host) (*Result, error) {
	found, err := d.targets(ctx, c)
	if err != nil {
		return nil, err
	}
	fates := make([]fate, len(found))
	err = each(ctx, found, func(ctx context.Context, i int, f Found) error {
		if !d.send(f) {
			fates[i] = already
			return nil
		}
		h.Progress("deleting " + f.Ref.String())
		var err error
		fates[i], err = d.one(ctx, c, f)
		return err
	})
	var again []string
	for i, f := range found {
		if fates[i] == replaced {
			again = append(again, f.Ref.String())
		}
	}
	if err == nil && d.waits() {
		var more []string
		more, err = waitGone(ctx, c, h, found)
		again = append(again, more...)
		slices.Sort(again)
		again = slices.Compact(again)
	}
	res := d.report(found, fates, again)
	if err != nil {
		return res, fmt.Errorf("delete %s: %w", d.what(), err)
	}
	return res, nil
}

// fate is what became of an object.
type fate int

const (
	untouched fate = iota
	sent           // it was deleted
	already        // it was being deleted, or gone, before
	replaced       // another object had its name by then
)

// one deletes one object, and no other of its name.
func (d *deletion) one(ctx context.Context, c Cluster, f Found) (fate, error) {
	obj := f.Object
	for try := 0; ; try++ {
		_, err := c.Do(ctx, Write{Ref: f.Ref, Before: obj, Delete: &DeleteWrite{Propagation: d.Propagation, GraceSeconds: d.GracePeriod}})
		switch {
		case err == nil:
			return sent, nil
		case apierrors.IsNotFound(err):
			return already, nil
		case !apierrors.IsConflict(err) || try == conflictTries:
			return untouched, webhookHint(err, "the webhook is asked before anything of this kind is deleted")
		}
		now, gerr := c.Get(ctx, Ref{Resource: f.Ref.Resource, Namespace: f.Ref.Namespace, Name: f.Ref.Name})
		switch {
		case apierrors.IsNotFound(gerr):
			return already, nil
		case gerr != nil:
			return untouched, gerr
		case now.GetUID() != f.Ref.UID:
			return replaced, nil
		case !d.send(Found{f.Ref, now}):
			return already, nil
		}
		obj = now
	}
}

// report says what became of what was found, and what was made again.
func (d *deletion) report(found []Found, fates []fate, again []string) *Result {
	names := map[fate][]Found{}
	for i, f := range found {
		names[fates[i]] = append(names[fates[i]], f)
	}
	var said []string
	if n := len(names[sent]); n > 0 {
		said = append(said, fmt.Sprintf("%d deleted", n))
	}
	if n := len(names[already]); n > 0 {
		said = append(said, fmt.Sprintf("%d being deleted before", n))
	}
	if len(found) == 0 {
		said = append(said, "nothing to delete")
	}
	if len(again) > 0 {
		said = append(said, "and a controller made again: "+firstOf(again))
	}
	value := map[string]any{"deleted": refNames(names[sent]), "already": refNames(names[already]), "recreated": anys(again)}
	return &Result{Value: value, Said: strings.Join(said, ", ")}
}

// unique drops repeats.
func unique(ps []Permission) []Permission {
	seen := map[Permission]bool{}
	var out []Permission
	for _, p := range ps {
		if !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	return out
}

// shortDuration writes a duration as kubectl takes it: 90s is 1m30s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
