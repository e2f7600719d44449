drop function queue_message;
drop type queued_message;
