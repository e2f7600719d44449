drop table bus_revocations;
