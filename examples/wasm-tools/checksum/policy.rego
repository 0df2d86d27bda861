# CRC-32 is refused where somebody could tamper with the data.
package awaken.policy

allow contains "checksums only compute" if input.tool.plugin == "checksum"

block contains "CRC-32 does not show tampering: use checksum__sha256" if {
	input.tool.id == "checksum__crc32"
	contains(lower(object.get(input.call.arguments, "purpose", "")), "tamper")
}
