package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox/sandboxtest"
)

func TestReportIsWhatTestsRead(t *testing.T) {
	image := "127.0.0.1:1/awaken/busybox@sha256:00"
	said := report{
		Program: "/engines", State: "/state",
		Docker:  &docker{Binary: "/docker", Host: "unix:///docker.sock", Image: image},
		Podman:  &podman{Binary: "/podman", Args: []string{"--a"}, RunArgs: []string{"--b"}, Image: image},
		Kube:    &kube{Kubeconfig: "/kubeconfig", Namespace: "test", Node: "localhost", Image: image},
		Missing: map[string]string{"docker": "why"},
	}
	text, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	var got sandboxtest.EngineSet
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	want := sandboxtest.EngineSet{
		Program: "/engines", State: "/state",
		Docker:  &sandboxtest.DockerEngine{Binary: "/docker", Host: "unix:///docker.sock", Image: image},
		Podman:  &sandboxtest.PodmanEngine{Binary: "/podman", Args: []string{"--a"}, RunArgs: []string{"--b"}, Image: image},
		Kube:    &sandboxtest.KubeCluster{Kubeconfig: "/kubeconfig", Namespace: "test", Node: "localhost", Image: image},
		Missing: map[string]string{"docker": "why"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, want %+v", got, want)
	}
}
