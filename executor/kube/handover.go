package kube

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig writes a kubeconfig into dir that has nothing but the cluster's
// context, as the current one, for a local program. Certificates and keys are
// in it; a token file and a credential plugin are named by absolute paths, as
// they give new tokens in time. Only the user can read the file; the caller
// deletes it.
func (c *Cluster) Kubeconfig(dir string) (path string, err error) {
	c.mu.Lock()
	raw := c.raw.DeepCopy()
	c.mu.Unlock()
	raw.CurrentContext = c.context
	if err := clientcmdapi.MinifyConfig(raw); err != nil {
		return "", fmt.Errorf("write a kubeconfig for %q: %w", c.context, err)
	}
	if err := clientcmdapi.FlattenConfig(raw); err != nil {
		return "", fmt.Errorf("write a kubeconfig for %q: %w", c.context, err)
	}
	for _, user := range raw.AuthInfos {
		if err := absolute(user); err != nil {
			return "", fmt.Errorf("write a kubeconfig for %q: %w", c.context, err)
		}
	}
	data, err := clientcmd.Write(*raw)
	if err != nil {
		return "", fmt.Errorf("write a kubeconfig for %q: %w", c.context, err)
	}
	f, err := os.CreateTemp(dir, "kubeconfig-*") // mode 0600
	if err != nil {
		return "", fmt.Errorf("write a kubeconfig for %q: %w", c.context, err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("write a kubeconfig for %q: %w", c.context, err), os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// absolute keeps a user's files findable from another directory.
func absolute(user *clientcmdapi.AuthInfo) (err error) {
	if user.TokenFile != "" {
		if user.TokenFile, err = filepath.Abs(user.TokenFile); err != nil {
			return err
		}
	}
	if e := user.Exec; e != nil && strings.ContainsRune(e.Command, filepath.Separator) {
		e.Command, err = filepath.Abs(e.Command)
	}
	return err
}
