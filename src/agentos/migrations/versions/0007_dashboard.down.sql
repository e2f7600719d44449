drop index sessions_of_team;
