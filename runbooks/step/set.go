package step

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// Set returns the verb that computes named values.
func Set() *Kind {
	return &Kind{
		Name: "set",
		Doc: "Computes values from inputs and earlier outputs. Each key is an output of the step, " +
			"and the formula shows on the page.",
		Example: `- id: names
  title: Work out the names
  set: {namespace: 'tenant-${inputs.clusterID}'}
`,
		Result:    "the values by name",
		New:       func() Action { return new(set) },
		NoCluster: true,
		Named:     true,
	}
}

type set map[string]any

func (*set) Effect() Effect            { return Reads }
func (*set) Permissions() []Permission { return nil }
func (*set) Kubectl() []Line           { return nil }

func (s *set) Preview(context.Context, Reader) (*Preview, error) {
	return &Preview{Said: s.said(), Value: map[string]any(*s), Known: true}, nil
}

func (s *set) Run(context.Context, Cluster, Host) (*Result, error) {
	return &Result{Value: map[string]any(*s), Said: s.said()}, nil
}

func (s *set) said() string { return strings.Join(slices.Sorted(maps.Keys(*s)), ", ") }
