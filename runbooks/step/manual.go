package step

import "context"

// Manual returns the verb that asks a person to do something.
func Manual() *Kind {
	return &Kind{
		Name: "manual",
		Doc: "Shows instructions and waits until the person says that they have followed them. " +
			"Without a terminal, and unless it was approved beforehand, the run ends as declined.",
		Example: `- id: cable
  title: Check the cable
  manual: {text: Look whether the cable is plugged in., question: 'Is it plugged in?'}
`,
		New:       func() Action { return new(manual) },
		NoCluster: true,
	}
}

type manual struct {
	Text     string `yaml:"text,required" doc:"What to do, in Markdown."`
	Question string `yaml:"question" doc:"What to answer with yes when it is done."`
}

func (m *manual) Effect() Effect            { return Reads }
func (m *manual) Permissions() []Permission { return nil }

func (m *manual) Kubectl() []Line { return []Line{{Note: m.Text}} }

func (m *manual) Preview(context.Context, Reader) (*Preview, error) {
	return &Preview{Said: "would ask: " + m.question()}, nil
}

func (m *manual) question() string {
	if m.Question == "" {
		return "Done?"
	}
	return m.Question
}

func (m *manual) Run(ctx context.Context, _ Cluster, h Host) (*Result, error) {
	if err := h.Confirm(ctx, m.Text+"\n"+m.question()); err != nil {
		return nil, err
	}
	return &Result{Said: "confirmed"}, nil
}
