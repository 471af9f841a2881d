package cli

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

type listOptions struct {
	env  *Env
	base *baseFlags
}

// newListCmd returns 'rutter list'.
func newListCmd(env *Env, base *baseFlags, run func(context.Context, *listOptions) error) *cobra.Command {
	opts := &listOptions{env: env, base: base}
	return &cobra.Command{
		Use:   "list",
		Short: "List the runbooks",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), opts) },
	}
}

func runList(_ context.Context, opts *listOptions) error {
	b, err := opts.base.open()
	if err != nil {
		return err
	}
	all, err := opts.env.load(b)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(opts.env.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tEFFECT\tWHAT IT IS FOR")
	for _, rb := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\n", rb.Name, rb.Effect(), rb.Summary)
	}
	return w.Flush()
}
