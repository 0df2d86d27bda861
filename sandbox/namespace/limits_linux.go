package namespace

import (
	"github.com/awaken-agents/awaken-host/sandbox"
)

func (i *instance) limitFindings(p sandbox.Properties) {
	p[sandbox.PropertyMemory] = finding(false, "", "no limit", "")
	p[sandbox.PropertyPIDs] = finding(false, "", "no limit", "")
}
