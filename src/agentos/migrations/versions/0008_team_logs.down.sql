drop table team_logs;
