package kube

import (
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// labelNetwork is what the NetworkPolicy selects Pods by.
const labelNetwork = "awaken.host/network"

// labelValue is s as it may stand in a label: itself, or a digest of it. What it really
// is stands in an annotation with the same key.
func labelValue(s string) string {
	if len(validation.IsValidLabelValue(s)) == 0 {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + hex.EncodeToString(sum[:20])
}

func pairs(l sandbox.Labels) map[string]string {
	return map[string]string{
		sandbox.LabelHost: l.Host, sandbox.LabelOwner: l.Owner, sandbox.LabelEnvironment: l.Environment, sandbox.LabelSession: l.Session,
	}
}

// labelsOf reads them back. Only what is in the annotations counts: two hosts' ids may
// have one digest only if somebody made it so.
func labelsOf(pod *corev1.Pod) sandbox.Labels {
	a := pod.Annotations
	return sandbox.Labels{
		Host: a[sandbox.LabelHost], Owner: a[sandbox.LabelOwner], Environment: a[sandbox.LabelEnvironment], Session: a[sandbox.LabelSession],
	}
}
