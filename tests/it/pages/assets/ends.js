'</SCRIPT></script> <!--';
