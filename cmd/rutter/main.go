// Command rutter builds, checks, plans, runs and drills runbooks.
package main

import (
	"os"

	"rutter/cmd/internal/cli"
)

func main() { os.Exit(cli.Main(cli.SystemEnv(), os.Args[1:])) }
