package kube

import (
	"k8s.io/client-go/kubernetes"
)

// cluster is a connection and the namespace that everything happens in.
type cluster struct {
	client    kubernetes.Interface
	namespace string
	exec      executor
}
