package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"rutter/runbooks/runbook"
)

// newSchemaCmd returns 'rutter schema'.
func newSchemaCmd(env *Env, run func(context.Context, *Env) error) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of runbook files, for editors",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), env) },
	}
}

func runSchema(_ context.Context, env *Env) error {
	schema, err := runbook.Schema(env.Kinds)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(env.Stdout, string(schema))
	return err
}
