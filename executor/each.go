package executor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"rutter/runbooks/expr"
	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
)

// bound is the work of a step: an action, or one for each item.
type bound struct {
	actions []step.Action
	items   []any // nil for a step that is done once
}

// bind evaluates a step's arguments, for each item if it is repeated. Names of
// values that are not known yet are returned in unknown; there is then one
// action, with markers.
func bind(ctx context.Context, s *runbook.Step, vars expr.Vars) (b bound, unknown []string, err error) {
	items, unknown, err := s.Items(ctx, vars)
	if err != nil {
		return b, nil, err
	}
	if len(unknown) > 0 {
		items = []any{expr.Unknown}
	}
	for _, item := range items {
		action, more, err := s.Bind(ctx, s.With(vars, item))
		if err != nil {
			return b, nil, err
		}
		b.actions = append(b.actions, action)
		unknown = append(unknown, more...)
	}
	if s.Each != nil {
		b.items = append([]any{}, items...)
	}
	slices.Sort(unknown)
	return b, slices.Compact(unknown), nil
}

// lines are the commands for all of the work.
func (b bound) lines() []step.Line {
	var lines []step.Line
	for _, a := range b.actions {
		lines = append(lines, a.Kubectl()...)
	}
	return lines
}

// preview previews all of the work.
func (b bound) preview(ctx context.Context, r step.Reader) (*step.Preview, error) {
	if b.items == nil {
		return b.actions[0].Preview(ctx, r)
	}
	all := &step.Preview{Idle: true, Known: true}
	values := []any{}
	var said []string
	for _, a := range b.actions {
		p, err := a.Preview(ctx, r)
		if err != nil {
			return nil, err
		}
		all.Changes = append(all.Changes, p.Changes...)
		all.Idle, all.Known = all.Idle && p.Idle, all.Known && p.Known
		values, said = append(values, p.Value), append(said, p.Said)
	}
	all.Value, all.Said = values, tally(said)
	return all, nil
}

// run does all of the work, one after the other, and stops at what fails.
func (b bound) run(ctx context.Context, do func(context.Context, step.Action) (*step.Result, error)) (*step.Result, error) {
	if b.items == nil {
		return do(ctx, b.actions[0])
	}
	values := []any{}
	all := &step.Result{}
	var said []string
	for _, a := range b.actions {
		res, err := do(ctx, a)
		if res == nil {
			res = &step.Result{}
		}
		values, said = append(values, res.Value), append(said, res.Said)
		all.Value, all.Said = values, tally(said)
		if res.Table != nil && all.Table == nil {
			all.Table = &step.Table{Head: res.Table.Head}
		}
		if res.Table != nil {
			all.Table.Rows = append(all.Table.Rows, res.Table.Rows...)
		}
		if err != nil {
			return all, err
		}
	}
	all.Value, all.Said = values, tally(said)
	return all, nil
}

// tally counts what is said several times: "2 × 1 changed, 1 × no change".
func tally(said []string) string {
	if len(said) == 0 {
		return "no items"
	}
	counts := map[string]int{}
	var order []string
	for _, s := range said {
		if counts[s]++; counts[s] == 1 {
			order = append(order, s)
		}
	}
	parts := make([]string, len(order))
	for i, s := range order {
		parts[i] = fmt.Sprintf("%d × %s", counts[s], s)
	}
	return strings.Join(parts, ", ")
}
