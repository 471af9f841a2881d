//go:build !unix

package kubetest

import "errors"

// lock has no way to work here; practice clusters need a Unix system anyway.
func lock(string) (unlock func() error, err error) {
	return nil, errors.New("practice clusters cannot be shared between tests on this system")
}
