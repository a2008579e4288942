"""The management of a study for programs: what its pages do, by the same services and for the same roles."""
