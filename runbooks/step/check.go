package step

import "context"

// Check returns the verb that only judges what earlier steps found.
func Check() *Kind {
	return &Kind{
		Name: "check",
		Doc:  "Judges earlier outputs and does nothing else: all it says stands in the step's `expect`.",
		Example: `- id: guard
  title: Is it safe?
  check: {}
  expect:
  - fail: inputs.force == false
    message: This needs force.
`,
		New:       func() Action { return new(check) },
		NoCluster: true,
	}
}

type check struct{}

func (*check) Effect() Effect            { return Reads }
func (*check) Permissions() []Permission { return nil }
func (*check) Kubectl() []Line           { return nil }

func (*check) Preview(context.Context, Reader) (*Preview, error) { return &Preview{Known: true}, nil }

func (*check) Run(context.Context, Cluster, Host) (*Result, error) { return &Result{}, nil }
