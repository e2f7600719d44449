drop function commit_changes, settle_call;
drop type committed_change, session_change, journal_event, journal_step, account_in_question, settled_call;
