"""Address groups: named lists of CIDRs that security group rules refer to."""
